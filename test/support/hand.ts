import type { ElementHandle, Locator, Page } from 'playwright-core';

/** How someone uses a page. */
export type Way = 'pointer' | 'keyboard';

/** More Tab presses than it takes to reach everything on a page. */
const STEPS_MAX = 150;

/** The role of a control in the accessibility tree; `details` opens a collapsed section. */
type Kind = 'link' | 'button' | 'radio' | 'checkbox' | 'details';

/** A person who knows only the words on a page and uses it with a pointer or only the keyboard. */
export interface Hand {
  /** The number of presses, without typed text. */
  readonly presses: number;
  press(kind: Kind, name: string | RegExp): Promise<void>;
  /** Replaces the content of a field. */
  type(label: string | RegExp, text: string): Promise<void>;
  pick(label: string, option: string): Promise<void>;
  attach(label: string, file: { name: string; mimeType: string; buffer: Buffer }): Promise<void>;
  /** Waits until the page shows a text. */
  see(text: string | RegExp): Promise<void>;
}

interface Control {
  readonly type?: string;
  readonly name?: string;
  readonly form?: unknown;
  readonly checked?: boolean;
}

/** Runs in the page: finds where the focus is relative to a control. */
function findFocus(one: Control): 'here' | 'group' | 'away' {
  const active = (globalThis as unknown as { document: { activeElement: Control } }).document.activeElement;
  if (active === one) return 'here';
  const isGroup =
    one.type === 'radio' && active.type === 'radio' && active.name === one.name && active.form === one.form;
  return isGroup ? 'group' : 'away';
}

const isChecked = (one: Control): boolean => one.checked === true;

export function createHand(page: Page, way: Way, isTouch: boolean): Hand {
  let presses = 0;
  const find = (kind: Kind, name: string | RegExp): Locator => {
    const isExact = typeof name === 'string';
    const found =
      kind === 'details' ? page.locator('summary', { hasText: name }) : page.getByRole(kind, { name, exact: isExact });
    return found.filter({ visible: true }).first();
  };
  /** Takes the last match: of two forms with the same field, such as sign-in and sign-up, the last was opened last. */
  const field = (label: string | RegExp): Locator =>
    page.getByLabel(label, { exact: true }).filter({ visible: true }).last();

  /** Moves the focus to the target with the Tab key, and with the arrow keys within a group of radio buttons. */
  const reach = async (target: Locator): Promise<ElementHandle> => {
    const element = await target.elementHandle();
    if (element === null) throw new Error(`nothing is there: ${String(target)}`);
    for (let step = 0; step < STEPS_MAX; step += 1) {
      const focus = await element.evaluate(findFocus as never);
      if (focus === 'here') return element;
      await page.keyboard.press(focus === 'group' ? 'ArrowDown' : 'Tab');
    }
    throw new Error(`the Tab key does not lead to ${String(target)}`);
  };
  const use = async (target: Locator, key: 'Enter' | 'Space'): Promise<void> => {
    await target.waitFor();
    presses += 1;
    if (way === 'keyboard') {
      const element = await reach(target);
      const isChosen = await element.evaluate(isChecked as never);
      if (!isChosen) await page.keyboard.press(key);
    } else if (isTouch) await target.tap();
    else await target.click();
  };

  return {
    get presses() {
      return presses;
    },
    press: (kind, name) => use(find(kind, name), kind === 'radio' || kind === 'checkbox' ? 'Space' : 'Enter'),
    async type(label, text) {
      const target = field(label);
      await target.waitFor();
      if (way === 'keyboard') await reach(target);
      else if (isTouch) await target.tap();
      else await target.click();
      await page.keyboard.press('ControlOrMeta+A');
      await page.keyboard.type(text);
    },
    async pick(label, option) {
      const target = field(label);
      await target.waitFor();
      if (way === 'keyboard') {
        await reach(target);
        await page.keyboard.type(option);
      } else {
        const labels = await target.locator('option').allInnerTexts();
        await target.selectOption({ label: labels.find((one) => one.startsWith(option)) ?? option });
      }
    },
    async attach(label, file) {
      const chooser = page.waitForEvent('filechooser');
      await use(field(label), 'Enter');
      await (await chooser).setFiles(file);
    },
    see: (text) => page.getByText(text).filter({ visible: true }).first().waitFor(),
  };
}
