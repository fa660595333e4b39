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
  const forget = async () => {
    const registration = await navigator.serviceWorker.getRegistration();
    await (await registration?.pushManager.getSubscription())?.unsubscribe();
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
    const { endpoint, keys } = subscription.toJSON();
    for (const [name, value] of Object.entries({ endpoint, ...keys })) form.elements[name].value = value;
    form.submit();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    turnOn().catch(() => say('failed'));
  });
  // The service no longer has it.
  if (isAble && !isOn) forget().catch(() => {});
  sayUsual();
})();
