// Shows push notifications while no page of the dashboard is open, and tells the service when the browser replaces its
// subscription. It has nothing else to do: it loads and caches nothing.
(() => {
  'use strict';
  const read = (data) => {
    try {
      return data.json();
    } catch {
      return {};
    }
  };
  const show = async ({ title, body = '', path, tag }) => {
    const pages = await self.clients.matchAll({ type: 'window' });
    // Browsers require a notification for each message, even if the person is already here.
    const silent = pages.some(({ visibilityState }) => visibilityState === 'visible');
    await self.registration.showNotification(title ?? 'Something needs you', { body, tag, silent, data: { path } });
  };
  const STOPPED = {
    title: 'Push notifications stopped',
    body: 'Turn them on again in the settings.',
    path: '/dashboard/settings',
    tag: 'stopped',
  };
  const renew = async ({ oldSubscription, newSubscription }) => {
    const fresh = newSubscription ?? (await self.registration.pushManager.subscribe(oldSubscription.options));
    const { endpoint, keys } = fresh.toJSON();
    const answer = await fetch('/dashboard/push-renewal', {
      method: 'POST',
      body: new URLSearchParams({ endpoint, ...keys }),
    });
    if (!answer.ok) throw new Error(answer.statusText);
  };
  // Without it, nothing would arrive anymore, and no one would know.
  self.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew(event).catch(() => show(STOPPED))));
  self.addEventListener('push', (event) => event.waitUntil(show(read(event.data))));
  self.addEventListener('notificationclick', (event) => {
    const { notification } = event;
    notification.close();
    const path = notification.data?.path ?? '/dashboard/needs-you';
    // A new tab: whatever someone is typing in another one stays.
    event.waitUntil(self.clients.openWindow(path));
  });
})();
