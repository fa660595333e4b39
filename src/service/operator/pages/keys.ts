import type { SigningKeys } from '../../oauth/access-tokens.js';
import { OPERATOR_AREA, renderQuestion } from '../../web/dashboard/frame.js';
import { movedWithNote, type PageRow, page } from '../../web/dashboard/visit.js';
import { actAsOperator } from '../actions.js';
import { operatorOf } from './area.js';

export const ROTATE_PATH = `${OPERATOR_AREA}/keys/rotate`;

const QUESTION = {
  title: 'Rotate the signing keys?',
  consequences: [
    'A new key is published now. It takes over once everyone who checks tokens has had time to load it.',
    'Tokens signed by the current key stay valid until they expire. No one is signed out.',
    'The service does this automatically from time to time. Do it now if the current key may have leaked.',
  ],
  label: 'Rotate keys',
} as const;

/** Asks, and publishes the next signing key. */
export function createKeyRows(sources: { readonly keys: Pick<SigningKeys, 'rotateKeys'> }): readonly PageRow[] {
  return [
    {
      path: ROTATE_PATH,
      async show({ csrf }) {
        const back = { label: 'Overview', path: OPERATOR_AREA };
        const main = renderQuestion({ ...QUESTION, path: ROTATE_PATH, csrf, back });
        return page({ title: QUESTION.title, section: undefined, main });
      },
      async act(visit) {
        const action = { operation: 'rotateSigningKeys', target: '' } as const;
        const isNew = await actAsOperator(visit.context, operatorOf(visit), action, () => sources.keys.rotateKeys());
        return movedWithNote(visit, OPERATOR_AREA, isNew ? 'keys-rotated' : 'keys-waiting');
      },
    },
  ];
}
