// Asks the browser to create a passkey or to sign in with one, and sends the result with the form. The form is hidden
// without this script and in browsers without passkeys.
(() => {
  'use strict';
  const form = document.getElementById('passkey-form');
  if (!form || !window.PublicKeyCredential) return;
  const problem = document.getElementById('passkey-problem');
  const { kind, challenge, rp, user, algorithms, credentials } = JSON.parse(form.dataset.passkey);
  let waiting;

  const toBytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (character) => character.charCodeAt(0));
  const toText = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replace(/\+/g, '-')
      .replace(/\//g, '_')
      .replace(/=+$/, '');
  const known = (credentials || []).map(({ id, transports }) => ({ type: 'public-key', id: toBytes(id), transports }));

  const create = () =>
    navigator.credentials.create({
      publicKey: {
        challenge: toBytes(challenge),
        rp,
        user: { ...user, id: new TextEncoder().encode(user.id) },
        pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
        authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
        excludeCredentials: known,
      },
    });
  const get = (more) =>
    navigator.credentials.get({
      publicKey: {
        challenge: toBytes(challenge),
        rpId: rp.id,
        userVerification: 'required',
        allowCredentials: known,
      },
      ...more,
    });
  const send = ({ id, rawId, type, response }) => {
    const members = ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle'];
    const texts = members.filter((name) => response[name]).map((name) => [name, toText(response[name])]);
    const transports = response.getTransports?.();
    form.elements.credential.value = JSON.stringify({
      id,
      rawId: toText(rawId),
      type,
      response: { ...Object.fromEntries(texts), transports },
      clientExtensionResults: {},
    });
    form.submit();
  };
  const explain = ({ name }) => {
    if (name === 'InvalidStateError') return 'This device already has a passkey for this account.';
    if (name === 'NotAllowedError') return 'Your browser did not use a passkey: you canceled, or it took too long.';
    return 'Your browser cannot use a passkey here.';
  };

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    waiting?.abort();
    problem.hidden = true;
    try {
      send(await (kind === 'create' ? create() : get()));
    } catch (error) {
      problem.textContent = explain(error);
      problem.hidden = false;
    }
  });
  form.hidden = false;

  // Offers passkeys among the suggestions for the username.
  const suggest = async () => {
    if (kind !== 'sign-in' || !(await window.PublicKeyCredential.isConditionalMediationAvailable?.())) return;
    waiting = new AbortController();
    try {
      send(await get({ mediation: 'conditional', signal: waiting.signal }));
    } catch {
      // The button aborted the suggestion, or it was refused. The button reports errors.
    }
  };
  suggest();
})();
