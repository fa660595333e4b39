// Sends a message without reloading the page, keeps drafts, and adds keyboard shortcuts. Without this script, the form
// works as a plain one. The text stays until the service has accepted it, and the form's key ensures that it is sent
// only once.
(() => {
  'use strict';
  document.documentElement.classList.add('has-script');
  const DRAFT = `asp-draft ${location.pathname}`;
  const $ = (id) => document.getElementById(id);
  // Storage can be full or forbidden.
  const attempt = (work) => {
    try {
      return work();
    } catch {
      return undefined;
    }
  };
  const createKey = () =>
    Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
  const keep = () => {
    const form = $('writing');
    const { text, key, reply_to: sequence } = form.elements;
    if (text.value.trim() === '') return attempt(() => localStorage.removeItem(DRAFT));
    const { textContent: excerpt } = form.querySelector('.excerpt');
    const draft = { text: text.value, key: key.value, sequence: sequence.value, excerpt };
    attempt(() => localStorage.setItem(DRAFT, JSON.stringify(draft)));
  };
  const restore = () => {
    const form = $('writing');
    const draft = attempt(() => JSON.parse(localStorage.getItem(DRAFT)));
    if (!form?.elements || typeof draft?.text !== 'string' || form.elements.text.value !== '') return;
    form.elements.text.value = draft.text;
    // The page may have closed after sending this draft, so use the same key.
    if (typeof draft.key === 'string') form.elements.key.value = draft.key;
    // The address of this page may name another message to reply to.
    if (draft.sequence && !form.elements.reply_to.value) answer(draft.sequence, draft.excerpt);
  };
  const complain = (id, message) => {
    const place = $(id);
    const field = $(id.replace('-mistake', ''));
    place.textContent = message;
    place.hidden = !message;
    if (message) field.setAttribute('aria-invalid', 'true');
    else field.removeAttribute('aria-invalid');
  };
  const answer = (sequence, excerpt) => {
    const line = $('answered');
    line.hidden = !sequence;
    line.querySelector('input').value = sequence;
    line.querySelector('.excerpt').textContent = excerpt;
  };
  /** Text that was typed while the message was being sent begins the next one. */
  const clear = (sent) => {
    const form = $('writing');
    if (form?.elements) {
      const { text, file, key } = form.elements;
      if (text.value.startsWith(sent)) text.value = text.value.slice(sent.length).trimStart();
      file.value = '';
      key.value = createKey();
      answer('', '');
      keep();
    } else attempt(() => localStorage.removeItem(DRAFT));
    dispatchEvent(new Event('asp-sent'));
  };
  const explain = async (form, response) => {
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    const again = page.getElementById('writing');
    if (!again?.elements) {
      const why =
        (page.querySelector('.problem li') ?? page.querySelector('h1'))?.textContent ?? 'The service refused it';
      dispatchEvent(new Event('asp-refused'));
      return complain('text-mistake', why.replace(/\.?$/, '. The message was not sent; your text is kept.'));
    }
    for (const name of ['key', 'csrf']) form.elements[name].value = again.elements[name].value;
    const whole = again.querySelector('.problem li')?.textContent;
    complain('text-mistake', whole ?? again.querySelector('#text-mistake').textContent);
    complain('file-mistake', again.querySelector('#file-mistake').textContent);
  };
  let isSending = false;
  const send = async (form) => {
    if (isSending) return;
    isSending = true;
    $('send').setAttribute('aria-disabled', 'true');
    keep();
    complain('text-mistake', '');
    complain('file-mistake', '');
    const body = new FormData(form);
    const sent = form.elements.text.value;
    const response = await fetch(form.action, { method: 'POST', body, redirect: 'manual' }).catch(() => undefined);
    if (response?.type === 'opaqueredirect') {
      document.querySelector('.done')?.remove();
      clear(sent);
    } else if (response)
      await explain(form, response).catch(() => complain('text-mistake', 'The message was not sent.'));
    else complain('text-mistake', 'The service can’t be reached. The message was not sent; your text is kept.');
    isSending = false;
    $('send').removeAttribute('aria-disabled');
    form.elements.text.focus({ preventScroll: true });
  };
  document.addEventListener('submit', (event) => {
    if (event.target.id !== 'writing') return;
    event.preventDefault();
    send(event.target);
  });
  document.addEventListener('input', ({ target }) => {
    if (target.id === 'text' && target.form) keep();
  });
  document.addEventListener('keydown', (event) => {
    if (event.target.id !== 'text' || event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('.reply, .cancel');
    if (!link || !$('writing') || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const entry = link.closest('.entry');
    if (entry) {
      const sender = entry.querySelector('.by b').textContent;
      answer(entry.dataset.sequence, `Reply to ${sender}, message ${entry.dataset.sequence}`);
    } else answer('', '');
    keep();
    $('text').focus();
  });
  // A session that ends takes the form away, and a session that goes on brings an empty one.
  addEventListener('asp-composer', restore);
  restore();
})();
