// Opens the browser's print dialog. It runs when the whole page has arrived. Without this script, the reader uses the
// print command of the browser.
(() => {
  'use strict';
  const button = document.getElementById('print');
  button.hidden = false;
  button.addEventListener('click', () => print());
})();
