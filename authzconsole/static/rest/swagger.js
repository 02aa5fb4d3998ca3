"use strict";

const container = document.getElementById("swagger-ui");

SwaggerUIBundle({
  url: container.dataset.document,
  domNode: container,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  filter: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    // a session needs the CSRF token for writes; with an API token, it has no effect
    if (!["GET", "HEAD", undefined].includes(request.method)) {
      request.headers["X-CSRFToken"] = container.dataset.csrf;
    }
    return request;
  },
});
