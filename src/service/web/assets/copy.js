// Shows the buttons that copy code and commands: they need this script. Browsers allow the clipboard only on secure pages.
if (navigator.clipboard) {
  document.documentElement.classList.add('can-copy');
  document.addEventListener('click', async ({ target }) => {
    if (!target.classList.contains('copy')) return;
    const copied = await navigator.clipboard.writeText(target.closest('.code').querySelector('code').innerText).then(
      () => true,
      () => false,
    );
    target.textContent = copied ? 'Copied' : 'Copy failed';
    setTimeout(() => {
      target.textContent = 'Copy';
    }, 2000);
  });
}
