/** Prefix of each kind of id; what follows it is a 26-character uppercase Crockford ULID (spec: What the service does, rule 8). */
export const ID_PREFIX = {
  session: 'sess_',
  message: 'msg_',
  event: 'evt_',
  attachment: 'att_',
  agent: 'agt_',
  account: 'acct_',
  oauthClient: 'oac_',
} as const;

/** The kind of thing that an id names, as its prefix shows. */
export type IdKind = keyof typeof ID_PREFIX;

const ULID = '[0-7][0-9A-HJKMNP-TV-Z]{25}';

/** Whether `text` is a well-formed id of `kind`. */
export function isId(kind: IdKind, text: string): boolean {
  return text.length === ID_PREFIX[kind].length + 26 && ID_PATTERN[kind].test(text);
}

const toPattern = (kind: IdKind): RegExp => new RegExp(`^${ID_PREFIX[kind]}${ULID}$`);

/** The form of each kind of id. */
export const ID_PATTERN: Record<IdKind, RegExp> = {
  session: toPattern('session'),
  message: toPattern('message'),
  event: toPattern('event'),
  attachment: toPattern('attachment'),
  agent: toPattern('agent'),
  account: toPattern('account'),
  oauthClient: toPattern('oauthClient'),
};

/** What newer public clients call an attachment: the same id with another prefix (wire: Aliases). */
const FILE_PREFIX = 'file_';

/** The form of a `file_…` id. */
export const FILE_ID_PATTERN = new RegExp(`^${FILE_PREFIX}${ULID}$`);

/** The `att_…` id that a `file_…` id stands for; any other text is unchanged. */
export function toAttachmentId(id: string): string {
  return id.startsWith(FILE_PREFIX) ? `${ID_PREFIX.attachment}${id.slice(FILE_PREFIX.length)}` : id;
}

/** The `file_…` id of an `att_…` id. */
export function toFileId(attachmentId: string): string {
  return `${FILE_PREFIX}${attachmentId.slice(ID_PREFIX.attachment.length)}`;
}
