// On a narrow screen, the tab of the current page may be out of view, or the last one in view: then this scrolls the row
// of tabs until it is in the middle.
document.addEventListener('DOMContentLoaded', () => {
  'use strict';
  const NEXT = 48;
  for (const tab of document.querySelectorAll('nav [aria-current]')) {
    const row = tab.closest('nav');
    const [at, around] = [tab.getBoundingClientRect(), row.getBoundingClientRect()];
    if (at.right + NEXT > around.right) row.scrollLeft += (at.left + at.right - around.left - around.right) / 2;
  }
});
