import { isObject } from '../../../kit/parse-json.js';
import type { Message } from '../../../wire/schemas/message.js';
import { type Html, strangersText } from '../html.js';

/** The names that models' interfaces and their instrumentation use. All other metadata is shown only as it is. */
const NAMES = {
  model: ['model', 'model_id', 'modelId', 'gen_ai.response.model', 'gen_ai.request.model'],
  input: ['input_tokens', 'prompt_tokens', 'inputTokens', 'promptTokens', 'gen_ai.usage.input_tokens'],
  output: ['output_tokens', 'completion_tokens', 'outputTokens', 'completionTokens', 'gen_ai.usage.output_tokens'],
  total: ['total_tokens', 'totalTokens', 'tokens'],
  dollars: ['cost_usd', 'costUsd', 'total_cost_usd'],
  cost: ['cost'],
} as const;

const CURRENCY = /^[A-Z]{3}$/;

/** The model, tokens and cost that the sender reported in the metadata: pairs of a label and a value. */
export function readReportedUsage({
  metadata,
}: Pick<Message, 'metadata'>): readonly (readonly [string, Html | string])[] {
  if (metadata === undefined || metadata === null) return [];
  const places = [metadata, metadata['usage']].filter(isObject);
  const find = (name: keyof typeof NAMES): unknown =>
    places
      .flatMap((place) => NAMES[name].map((key) => place[key]))
      .find((value) => value !== undefined && value !== null);
  const model = find('model');
  const tokens = describeTokens(toCount(find('input')), toCount(find('output')), toCount(find('total')));
  const cost = describeCost(find('dollars'), find('cost'));
  return [
    ...(typeof model === 'string' && model.trim() !== '' ? [['Model', strangersText(model)] as const] : []),
    ...(tokens === undefined ? [] : [['Tokens', tokens] as const]),
    ...(cost === undefined ? [] : [['Cost', cost] as const]),
  ];
}

const toCount = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

function describeTokens(input?: number, output?: number, total?: number): string | undefined {
  const words = (count: number | undefined, label: string): string[] =>
    count === undefined ? [] : [`${count.toLocaleString('en-US')} ${label}`];
  const known = [...words(input, 'in'), ...words(output, 'out'), ...words(total, 'in all')];
  return known.length === 0 ? undefined : known.join(', ');
}

/** Undefined also for a number without a currency. */
function describeCost(dollars: unknown, cost: unknown): string | undefined {
  const { amount, currency } = isObject(cost) ? cost : { amount: dollars, currency: 'USD' };
  if (typeof amount !== 'number' || !Number.isFinite(amount) || amount < 0) return undefined;
  if (typeof currency !== 'string' || !CURRENCY.test(currency)) return undefined;
  return `${amount.toLocaleString('en-US', { maximumSignificantDigits: 4 })} ${currency}`;
}
