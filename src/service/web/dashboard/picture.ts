import { Readable } from 'node:stream';
import { changePicture, signPicture } from '../../attachments/attachments.js';
import { cleanPicture, PICTURE_MAX_BYTES, PICTURE_SIDE_MAX } from '../../attachments/clean-picture.js';
import { receiveFile, type UploadPart } from '../../attachments/receive-upload.js';
import { agentLock } from '../../store/lock-names.js';
import { REMOVE_PICTURE, requireAgent, showProfile } from './agent.js';
import { type DashboardAnswer, mistaken, moved, movedWithNote, type PostedForm, type Visit } from './visit.js';

/** Sends the browser to a signed address, as for every attachment. */
export async function fetchPicture(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  return context.database.read(async (query) =>
    moved(await signPicture(context, query, await requireAgent(visit, query))),
  );
}

export async function actPicture(visit: Visit, form: PostedForm): Promise<DashboardAnswer> {
  const { context, part } = visit;
  const back = `/dashboard/agents/${part('name')}/profile`;
  if (form.one(REMOVE_PICTURE) !== undefined) {
    await change(visit, undefined);
    return movedWithNote(visit, back, 'picture-removed');
  }
  const bytes = await readFirstFile(form);
  await visit.requireSignedIn();
  const clean = bytes && cleanPicture(bytes);
  if (clean === undefined) {
    const message =
      bytes === undefined
        ? 'Choose a picture of at most 1 MB.'
        : `This file is not a complete PNG or JPEG of at most ${PICTURE_SIDE_MAX} pixels on each side. Choose another one.`;
    return showProfile(visit, undefined, mistaken({ field: 'picture', message }));
  }
  await context.limits.take(
    'uploadAttachment',
    (await context.database.read((query) => requireAgent(visit, query))).id,
  );
  const staged = await receiveFile(context, {
    filename: clean.type === 'image/png' ? 'picture.png' : 'picture.jpg',
    type: clean.type,
    stream: Readable.from([clean.bytes]),
  });
  try {
    await change(visit, staged);
  } finally {
    await staged.release();
  }
  return movedWithNote(visit, back, 'picture-changed');
}

function change(visit: Visit, staged: Parameters<typeof changePicture>[3]): Promise<void> {
  const { context } = visit;
  return context.database.write(async (transaction) => {
    const { handle } = await requireAgent(visit, transaction);
    await transaction.lock([agentLock(handle)]);
    await changePicture(context, transaction, await requireAgent(visit, transaction), staged);
  });
}

/** Undefined: there is none, or it is too large. */
async function readFirstFile(form: PostedForm): Promise<Buffer | undefined> {
  for await (const { file } of form.files()) {
    if (file === undefined) continue;
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of file as NonNullable<UploadPart['file']>) {
      length += chunk.length;
      if (length <= PICTURE_MAX_BYTES) chunks.push(chunk);
    }
    return length === 0 || length > PICTURE_MAX_BYTES ? undefined : Buffer.concat(chunks);
  }
  return undefined;
}
