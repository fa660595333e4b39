import { type Html, html } from './html.js';

interface Series {
  readonly values: readonly number[];
  /** `bad` is drawn over the others. */
  readonly kind: 'usual' | 'bad';
}

export interface Graph {
  readonly title: string;
  /** The meaning of its values, for screen readers. */
  readonly about: string;
  readonly series: readonly Series[];
  /** A value, for people. */
  readonly format: (value: number) => string;
  /** Next to the title. */
  readonly remark?: Html | string | undefined;
  /** When the first value begins, and which time the latest one stands for. */
  readonly since: string;
  readonly latestIs: string;
}

const WIDTH = 240;
const HEIGHT = 48;
const GAP = 0.75;
/** Keeps a small value visible next to a large one. */
const LEAST = 1.5;

/**
 * One bar for each value, as large as the largest one allows. The numbers are above it, as text, and in the name of the
 * picture for screen readers, which skip the text.
 */
export function renderGraph({ title, about, series, format, remark, since, latestIs }: Graph): Html {
  const [first] = series;
  const largest = Math.max(0, ...series.flatMap(({ values }) => values));
  const latest = first?.values.at(-1) ?? 0;
  const label = `${about}: ${format(latest)} ${latestIs}, peak ${format(largest)}`;
  const bars = series.map(({ values, kind }) => html`<path class="${kind}" d="${drawBars(values, largest)}"/>`);
  return html`<figure class="graph"><figcaption><b>${title}</b><span class="soft small">${remark}</span></figcaption>
<p class="graph-value" aria-hidden="true">${format(latest)}<span class="soft small">${latestIs}, peak ${format(largest)}</span></p>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}"><path class="ground" d="M0 ${HEIGHT - 0.5}h${WIDTH}"/>${bars}</svg>
<p class="graph-times soft small" aria-hidden="true"><span>${since}</span><span>now</span></p></figure>`;
}

function drawBars(values: readonly number[], largest: number): string {
  const step = WIDTH / Math.max(1, values.length);
  return values
    .map((value, index) => {
      if (value <= 0 || largest <= 0) return '';
      const height = Math.max(LEAST, (value / largest) * HEIGHT);
      const [x, y] = [index * step, HEIGHT - height];
      return `M${round(x)} ${round(y)}h${round(step - GAP)}v${round(height)}h${round(GAP - step)}z`;
    })
    .join('');
}

const round = (value: number): number => Math.round(value * 100) / 100;
