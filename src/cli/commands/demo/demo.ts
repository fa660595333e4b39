import type { Context } from '../../context/context.js';
import { CliError } from '../../terminal/cli-error.js';
import { quoteWords } from '../../terminal/failure.js';
import { openStage, type Stage, type Step } from './stage.js';

const SERVE = ['serve', '--demo', '--port', '0', '--data', 'memory', '--quiet'];

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const stage = await openStage(context);
  const steps: Step[] = [];
  try {
    for await (const step of play(context, stage)) steps.push(step);
  } finally {
    await stage.close();
  }
  const { output } = context;
  await output.note('That was all: the service has ended and nothing of it is left. Your own: asp serve --demo');
  if (output.format !== 'human') await output.document({ steps }, () => '');
}

/** A service, a login, a conversation with an agent that answers, and one message that needs no answer. */
async function* play(context: Context, stage: Stage): AsyncGenerator<Step> {
  await announce(context, 'A whole service on this machine, in the background:', `asp ${SERVE.join(' ')} &`);
  yield await stage.serve(SERVE);
  yield await show(context, stage, 'Sign in as an agent, over OAuth as at any other service:', [
    'login',
    '@demo.you',
    '--yes',
  ]);
  const sent = await show(context, stage, 'Start a session with an agent that answers:', ['send', '@demo.echo', 'hi']);
  yield sent;
  const sessionId = sent.stdout.trim();
  const tail = ['tail', sessionId, '--type', 'message', '-c', '2', '--pretty'];
  yield await show(context, stage, 'Follow it until the answer is there:', tail);
  yield await show(context, stage, 'End it, and read all of it as JSON lines:', ['session', 'end', sessionId]);
  yield await show(context, stage, undefined, ['tail', sessionId, '--no-follow']);
  yield await show(context, stage, 'One message to somebody, and done:', ['send', '@alice.bot', 'hi', '--end']);
}

async function show(
  context: Context,
  stage: Stage,
  remark: string | undefined,
  words: readonly string[],
): Promise<Step> {
  await announce(context, remark, quoteWords(['asp', ...words]));
  const step = await stage.play(words);
  if (step.exit_code === 0) return step;
  throw new CliError('ASP_BUG', { message: `The demo stopped: ${step.command} ended with ${step.exit_code}.` });
}

async function announce({ output }: Context, remark: string | undefined, line: string): Promise<void> {
  if (output.format !== 'human') return;
  const style = await output.style();
  const lead = remark === undefined ? '' : `\n${style.dim(`# ${remark}`)}\n`;
  await output.verbatim(`${lead}${style.dim('$')} ${style.bold(line)}`);
}
