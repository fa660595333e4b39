// Turns push notifications on in this browser. The service has the list of browsers, and turns them off.
(() => {
  'use strict';
  const section = document.getElementById('push');
  if (!section) return;
  const form = section.querySelector('form');
  const isAble = 'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window;
  const isOn = 'on' in section.dataset;
  const say = (state) => {
    for (const one of section.querySelectorAll('[data-when]'))
      one.hidden = !one.dataset.when.split(' ').includes(state);
  };
  const sayUsual = () => {
    if (!window.isSecureContext) say('insecure');
    else if (!isAble) say('unable');
    else if (Notification.permission === 'denied') say('denied');
    else say(isOn ? 'on' : 'off');
  };
  const find = async () => (await navigator.serviceWorker.getRegistration())?.pushManager.getSubscription();
  const forget = async () => (await find())?.unsubscribe();
  const send = (subscription) => {
    const { endpoint, keys } = subscription.toJSON();
    for (const [name, value] of Object.entries({ endpoint, ...keys })) form.elements[name].value = value;
    form.submit();
  };
  const isKnown = async ({ endpoint }) => {
    const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(endpoint)));
    const mark = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
    return section.querySelector(`[data-subscription="${mark}"]`) !== null;
  };
  /**
   * The service may have it from an earlier sign-in of this browser, or still have the one that it replaced. Otherwise
   * nothing comes from it anymore.
   */
  const settle = async () => {
    const subscription = await find();
    if (!subscription) return isOn && say('off');
    if (isOn !== (await isKnown(subscription))) send(subscription);
    else if (!isOn) await subscription.unsubscribe();
  };
  const turnOn = async () => {
    const answer = await Notification.requestPermission();
    if (answer !== 'granted') return say(answer === 'denied' ? 'denied' : 'unanswered');
    await navigator.serviceWorker.register('/dashboard/worker.js');
    const { pushManager } = await navigator.serviceWorker.ready;
    // One of another account, or with another key.
    await forget();
    const subscription = await pushManager.subscribe({
      userVisibleOnly: true,
      applicationServerKey: section.dataset.key,
    });
    send(subscription);
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    // A screen reader announces only what the page says from here on.
    section.querySelector('[aria-live]').setAttribute('aria-live', 'polite');
    turnOn().catch(() => say('failed'));
  });
  sayUsual();
  if (isAble && Notification.permission === 'granted') settle().catch(() => {});
})();
