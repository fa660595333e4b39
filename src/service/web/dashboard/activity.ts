import { ACTIVITY, type ActivityKind } from '../../agents/activity.js';
import { type ActivityRow, listActivities } from '../../store/activities.js';
import { type Html, html, strangersText } from '../html.js';
import { renderTime } from '../time.js';
import { type Listed, renderEmpty, renderHeading, renderList, renderTrail, type View } from './frame.js';
import { type DashboardAnswer, page, readListed, type Visit } from './visit.js';

const PATH = '/dashboard/settings/activity';
/** Greater than every id: a ULID begins with a digit. */
const BEFORE_ALL = 'Z';

function renderActivities(listed: Listed<ActivityRow>, now: number): View {
  const heading = renderHeading({
    title: 'Activity',
    about: 'Sign-ins, and changes to your account, your agents and who can act for them. Entries are kept for 90 days.',
  });
  const nothing = renderEmpty('No activity', html`<p>Sign-ins and changes appear here.</p>`);
  const list = renderList(PATH, listed, (row) => renderActivity(row, now), nothing);
  const main = html`<div class="stack">${renderTrail('Settings', '/dashboard/settings')}${heading}${list}</div>`;
  return { title: 'Activity', section: undefined, main };
}

function renderActivity(
  { kind, detail, address, browser_name: browser, created_at: at }: ActivityRow,
  now: number,
): Html {
  const { label, isAlert } = ACTIVITY[kind as ActivityKind];
  return html`<li class="row"><div class="who grow"><b>${label}</b>${detail !== '' && html`<span class="soft small">${strangersText(detail)}</span>`}</div>
<div class="facts">${isAlert && html`<span class="badges"><span class="badge warn">Check this</span></span>`}<span class="soft small">${browser !== '' && html`${browser}, `}<span class="mono">${address}</span></span><span class="soft small">${renderTime(at, now)}</span></div></li>`;
}

export async function showActivity(visit: Visit): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const listed = await context.database.read((query) =>
    readListed(visit, {
      scope: ['activity', account.id],
      start: [BEFORE_ALL],
      toPosition: ({ id }: ActivityRow) => [id],
      read: ([beforeId], limit) => listActivities(query, account.id, beforeId, limit),
    }),
  );
  return page(renderActivities(listed, context.clock.now()));
}
