import type { FastifyInstance, FastifyReply } from 'fastify';
import { encode } from 'uqr';
import { isHandle } from '../../../wire/handle.js';
import { getPublicPath, parseSkills } from '../../agents/agents.js';
import { signPicture } from '../../attachments/attachments.js';
import type { Addresses, ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { GET_AND_HEAD } from '../../http/answers.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { type AgentRecordRow, findAgentByHandle } from '../../store/agents.js';
import { redirect } from '../api-scope.js';
import { COPY_SCRIPT } from '../assets.js';
import { type Html, html, renderAgentFace, renderName, strangersLines, strangersText } from '../html.js';
import { type Look, layOut, pageHeaders, readLook, sendErrorPage } from '../layout.js';
import { aspCommand, renderCommand } from './frame.js';
import { type ColorCode, prepareCode, renderMarkdown } from './markdown.js';
import { answerStranger, type PageBounds } from './page-bounds.js';
import { NEW_SESSION_PATH } from './sessions.js';

/** In place of the letter, but only where one agent is shown on its own: its owner chose the picture. */
export function renderPicture(path: string, handle: string): Html {
  return html`<img class="portrait" src="${path}" width="128" height="128" alt="Picture of ${handle}">`;
}

type DescribedAgent = Pick<AgentRecordRow, 'description' | 'card_body' | 'owner' | 'owner_display_name'>;

/** What everyone may read about an agent. All of it comes from the agent's owner. */
export function renderAbout(
  { description, card_body: card, owner, owner_display_name: ownerName }: DescribedAgent,
  skills: Readonly<ReturnType<typeof parseSkills>>,
  colorCode: ColorCode | undefined,
): Html {
  return html`${description !== null && html`<p class="lines">${strangersText(description, description.length)}</p>`}
<p class="soft small">By ${renderName(ownerName, `@${owner}`)} <span class="mono wrap">@${owner}</span></p>
${skills.length > 0 && html`<section class="stack-tight" aria-labelledby="skills"><h2 id="skills">Skills</h2><ul class="points">${skills.map((skill) => html`<li><b>${strangersText(skill.name, 100)}</b>${skill.description !== '' && html`<br>${strangersText(skill.description, 1000)}`}</li>`)}</ul></section>`}
${card !== null && html`<section class="card-text" aria-label="Card">${renderMarkdown(strangersLines(card), colorCode)}</section>`}`;
}

/** The page of a public agent, for people who are not signed in. */
function renderPublicAgent(
  row: AgentRecordRow,
  look: Look,
  { baseUrl, webUrl }: Addresses,
  colorCode: ColorCode | undefined,
): string {
  const { handle, display_name: name } = row;
  const whom: Html =
    row.inbound_policy === 'open'
      ? html`Send a message to this agent from a terminal:`
      : html`Only agents on the allowlist can start a session with this agent. If yours is one of them:`;
  const main = html`<div class="stack">
<div class="identity">${renderAgentFace(handle, 'large')}<div class="who"><h1>${renderName(name, handle)}</h1><span class="mono wrap">${handle}</span></div></div>
${row.image_url !== null && renderPicture(`${getPublicPath(handle)}/picture`, handle)}
${renderAbout(row, parseSkills(row), colorCode)}
<section class="stack-tight" aria-labelledby="use"><h2 id="use">Use this agent</h2><p class="soft small">${whom}</p>${renderCommand([aspCommand({ baseUrl }, 'send', handle, 'hello')])}<p class="soft small">Or <a href="${NEW_SESSION_PATH}?handles=${encodeURIComponent(handle)}">start a session in the dashboard</a>.</p></section>
<section class="stack-tight" aria-labelledby="share"><h2 id="share">Share this agent</h2>${renderCode(new URL(getPublicPath(handle), webUrl).href)}</section>
</div>`;
  return layOut({ look, title: handle, main, script: COPY_SCRIPT });
}

/** Light modules around the code, as ISO/IEC 18004 asks. */
const QUIET_ZONE = 4;

/** An address as a QR code, with the address below it. A camera needs dark on light, whatever the theme is. */
function renderCode(address: string): Html {
  const { size, data } = encode(address, { ecc: 'M', border: QUIET_ZONE });
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  return html`<figure class="code-to-scan"><svg viewBox="0 0 ${size} ${size}" role="img" aria-label="QR code of the address of this page" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h${size}v${size}H0z"/><path fill="#000" d="${dark.join('')}"/></svg>
<figcaption>${renderCommand([address])}</figcaption></figure>`;
}

/** A private, a removed and a nonexistent agent get the same page, and so does a picture that does not exist. */
export function registerAgentPage(scope: FastifyInstance, server: AuthorizationServer, bounds: PageBounds): void {
  const { database, settings } = server.context;
  const findPublic = async (query: Query, handle: string): Promise<AgentRecordRow | undefined> => {
    const row = isHandle(handle) ? await findAgentByHandle(query, handle) : undefined;
    return row?.visibility === 'public' && row.is_suspended === 0 ? row : undefined;
  };
  const show = async (handle: string, reply: FastifyReply): Promise<FastifyReply> => {
    const row = await database.read((query) => findPublic(query, handle));
    if (row === undefined) return sendUnknown(reply, server.context);
    const colorCode = await prepareCode([row.card_body ?? '']);
    const headers = pageHeaders(COPY_SCRIPT, row.image_url === null ? {} : { 'img-src': ['data:', "'self'"] });
    const look = readLook(server.context, reply.request);
    return reply.headers(headers).send(renderPublicAgent(row, look, settings.addresses, colorCode));
  };
  const showPicture = async (handle: string, reply: FastifyReply): Promise<FastifyReply> => {
    const path = await database.read(async (query) => {
      const row = await findPublic(query, handle);
      return row === undefined || row.image_url === null ? undefined : signPicture(server.context, query, row);
    });
    return path === undefined ? sendUnknown(reply, server.context) : redirect(reply, path);
  };
  scope.get<{ Params: { handle: string } }>('/agents/:handle', GET_AND_HEAD, (request, reply) =>
    answerStranger(server, bounds, { limit: 'viewAgentPage', request, reply }, () =>
      show(request.params.handle, reply),
    ),
  );
  scope.get<{ Params: { handle: string } }>('/agents/:handle/picture', GET_AND_HEAD, (request, reply) =>
    answerStranger(server, bounds, { limit: 'viewAgentPage', request, reply }, () =>
      showPicture(request.params.handle, reply),
    ),
  );
}

function sendUnknown(reply: FastifyReply, context: ServiceContext): FastifyReply {
  return sendErrorPage(reply, context, 404, {
    title: 'Page not found',
    message: 'This agent does not exist, or only its owner can see it.',
    code: 'NOT_FOUND',
    onward: { href: '/dashboard', label: 'Dashboard' },
  });
}
