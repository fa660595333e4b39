// Shows the buttons that copy code and commands: they need this script. Browsers allow the clipboard only on secure pages.
if (navigator.clipboard) {
  document.documentElement.classList.add('can-copy');
  // Screen readers do not say that the word on a button has changed. They need some time to find a new status.
  const UNTIL_FOUND = 100;
  let status;
  const announce = (words) => {
    if (!status?.isConnected) {
      status = document.createElement('p');
      status.className = 'hidden-label';
      status.setAttribute('role', 'status');
      document.body.append(status);
    }
    setTimeout(() => {
      status.textContent = words;
    }, UNTIL_FOUND);
  };
  document.addEventListener('click', async ({ target }) => {
    if (!target.classList.contains('copy')) return;
    const block = target.closest('.code');
    const shown = block?.querySelector('code');
    // A raw text is copied character by character, and a command as if someone had selected it.
    const text = target.dataset.copy ?? (block.matches('.raw') ? shown.textContent : shown.innerText);
    // For screen readers, hidden text after the word names what the button copies.
    const word = target.firstChild;
    const copied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    word.data = copied ? 'Copied' : 'Copy failed';
    announce(word.data);
    setTimeout(() => {
      word.data = 'Copy';
      announce('');
    }, 2000);
  });
}
