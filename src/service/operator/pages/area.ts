import { ServiceError } from '../../core/errors.js';
import { type Heading, OPERATOR_AREA, renderHeading, renderNote, type View } from '../../web/dashboard/frame.js';
import type { PageRow, Visit } from '../../web/dashboard/visit.js';
import { type Html, html } from '../../web/html.js';
import { describeVisitor } from '../../web/sign-in.js';
import { actAsOperator, type OperatorAction } from '../actions.js';

/** The pages of the operator's area, in the order of its navigation. */
const TABS = {
  overview: { label: 'Overview', path: OPERATOR_AREA },
  accounts: { label: 'Accounts', path: `${OPERATOR_AREA}/accounts` },
  agents: { label: 'Agents', path: `${OPERATOR_AREA}/agents` },
  invitations: { label: 'Invitations', path: `${OPERATOR_AREA}/invitations` },
  log: { label: 'Log', path: `${OPERATOR_AREA}/log` },
} as const;
export type Tab = keyof typeof TABS;

export interface AreaPage {
  readonly heading: Heading;
  readonly note?: Visit['note'];
  readonly body: Html;
}

/** A page with the area's tabs. */
export function renderAreaPage(tab: Tab, { heading, note, body }: AreaPage): View {
  const tabs = html`<nav class="tabs" aria-label="Operator"><ul>${Object.entries(TABS).map(([name, row]) => html`<li><a href="${row.path}"${name === tab && html` aria-current="page"`}>${row.label}</a></li>`)}</ul></nav>`;
  const main = html`<div class="stack">${renderHeading(heading)}${tabs}${renderNote(note)}${body}</div>`;
  return inArea(TABS[tab].label, main);
}

/** Any page of the area. */
export function inArea(title: string, main: Html): View {
  return { title: `${title} · Operator`, section: 'operator', main };
}

/** The same rows for operators alone. Everyone else gets the page of an unknown address. */
export function forOperators(rows: readonly PageRow[]): readonly PageRow[] {
  const guarded =
    <Rest extends unknown[], Answer>(work: (visit: Visit, ...rest: Rest) => Promise<Answer>) =>
    async (visit: Visit, ...rest: Rest): Promise<Answer> => {
      if (visit.account.is_operator !== 1) throw new ServiceError('NOT_FOUND');
      return work(visit, ...rest);
    };
  return rows.map(({ path, show, act }) => ({
    path,
    ...(show !== undefined && { show: guarded(show) }),
    ...(act !== undefined && { act: guarded(act) }),
  }));
}

/** Does something for the operator in front of the page. */
export function actFor<Answer>(
  { context, account, request }: Visit,
  action: OperatorAction,
  work: () => Promise<Answer>,
): Promise<Answer> {
  return actAsOperator(context, { username: account.username, ...describeVisitor(request) }, action, work);
}
