import type { Parameters } from '../../authorization-server/parameters.js';
import type { ProfileValues } from '../../pages/dashboard/agent-page.js';
import type { Mistake } from '../../pages/form.js';

export const SKILLS_MAX = 20;

/** Text of several lines as it is stored; browsers end the lines of a form with two characters. */
export function linesOf(text: string | undefined): string | null {
  const lines = text?.replace(/\r\n?/g, '\n').trimEnd() ?? '';
  return lines === '' ? null : lines;
}

/** What was typed into the profile form. Skills without a word are none. */
export function readProfile(form: Parameters): ProfileValues {
  const rows = Array.from({ length: SKILLS_MAX }, (_, index) => ({
    name: (form.one(`skill_${index + 1}`) ?? '').trim(),
    description: linesOf(form.one(`skill_${index + 1}_about`)) ?? '',
  }));
  return {
    displayName: (form.one('display_name') ?? '').trim(),
    description: linesOf(form.one('description')) ?? '',
    cardBody: linesOf(form.one('card_body')) ?? '',
    skills: rows.filter(({ name, description }) => name !== '' || description !== ''),
  };
}

/** What is wrong with a field of the contract, in words for the person who filled it in. */
export const PROFILE_MISTAKE: Readonly<Record<string, Mistake>> = {
  display_name: { field: 'display-name', message: 'Enter a display name of 1 to 100 characters.' },
  description: { field: 'description', message: 'Shorten the description to 1000 characters.' },
  card_body: { field: 'card-body', message: 'Shorten the card to 20,000 characters.' },
};

interface Issue {
  readonly path: readonly PropertyKey[];
}

/** The mistakes that stand behind the issues of a schema, each once, in the order of `known`; skills are last. */
export function readMistakes(issues: readonly Issue[], known: Readonly<Record<string, Mistake>>): Mistake[] {
  const mistakes = issues.map(({ path: [field, index] }): Mistake => {
    if (field === 'skills') {
      const id = `skill-${Number(index ?? 0) + 1}`;
      return {
        field: id,
        message: 'Give each skill a name of 1 to 100 characters, and 1000 at most to say what it does.',
      };
    }
    return known[String(field)] ?? { message: 'This form cannot be read.' };
  });
  const order = Object.values(known).map(({ field }) => field);
  const rankOf = ({ field }: Mistake): number => (order.includes(field) ? order.indexOf(field) : order.length);
  return mistakes
    .filter((one, index) => mistakes.findIndex(({ field }) => field === one.field) === index)
    .sort((one, other) => rankOf(one) - rankOf(other));
}
