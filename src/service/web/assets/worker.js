// Shows push notifications while no page of the dashboard is open. It has nothing else to do: it fetches and caches
// nothing.
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
  self.addEventListener('push', (event) => event.waitUntil(show(read(event.data))));
  self.addEventListener('notificationclick', (event) => {
    const { notification } = event;
    notification.close();
    const path = notification.data?.path ?? '/dashboard/needs-you';
    // A new tab: whatever someone is typing in another one stays.
    event.waitUntil(self.clients.openWindow(path));
  });
})();
