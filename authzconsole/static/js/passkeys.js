// Create and use passkeys. A form with data-passkey="create" or "get" has the options in data-options, or fetches them
// from its address. It has a hidden field `credential` for the answer of the browser, and an element with data-passkey-fault for errors.
"use strict";

(() => {
  const toBytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (character) => character.charCodeAt(0));
  const toText = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replace(/\+/g, "-")
      .replace(/\//g, "_")
      .replace(/=+$/, "");
  const withBytes = (list) => (list ?? []).map((item) => ({ ...item, id: toBytes(item.id) }));

  const create = (options) =>
    navigator.credentials.create({
      publicKey: {
        ...options,
        challenge: toBytes(options.challenge),
        user: { ...options.user, id: toBytes(options.user.id) },
        excludeCredentials: withBytes(options.excludeCredentials),
      },
    });
  const get = (options) =>
    navigator.credentials.get({
      publicKey: {
        ...options,
        challenge: toBytes(options.challenge),
        allowCredentials: withBytes(options.allowCredentials),
      },
    });

  const serialized = (credential) => {
    const response = { clientDataJSON: toText(credential.response.clientDataJSON) };
    for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = toText(credential.response[name]);
    }
    return JSON.stringify({
      id: credential.id,
      rawId: toText(credential.rawId),
      type: credential.type,
      clientExtensionResults: credential.getClientExtensionResults(),
      response,
    });
  };

  const showFault = (form, error) => {
    const reasons = {
      NotAllowedError: "The passkey was cancelled, or took too long.",
      InvalidStateError: "This device is registered already.",
      SecurityError: "Passkeys need https and a host name. On this machine, open the console as localhost.",
    };
    const fault = form.querySelector("[data-passkey-fault]");
    fault.textContent = reasons[error.name] ?? "The browser does not support passkeys.";
    fault.hidden = false;
  };

  const optionsOf = async (form) => {
    if (form.dataset.options) return JSON.parse(form.dataset.options);
    const response = await fetch(form.action, { headers: { "X-Requested-With": "XMLHttpRequest" } });
    return (await response.json()).request_options;
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const field = form.elements.credential;
    if (!form.dataset.passkey || field.value) return;
    event.preventDefault();
    try {
      const { publicKey } = await optionsOf(form);
      field.value = serialized(await (form.dataset.passkey === "create" ? create : get)(publicKey));
      form.requestSubmit();
    } catch (error) {
      showFault(form, error);
    }
  });
})();
