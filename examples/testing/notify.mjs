// @ts-check
// The program that the tests next to this file test: it tells an agent something and says where.

/**
 * @param {import('asp-cli').Client} client
 * @param {string} to
 * @param {string} text
 * @returns {Promise<string>} the session
 */
export async function notify(client, to, text) {
  const body = { invite: [to], initial_message: { content: text } };
  const { reply } = await client.call('createSession', { body });
  return reply.session_id;
}
