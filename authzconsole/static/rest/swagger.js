"use strict";

const place = document.getElementById("swagger-ui");

SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    // beside a token it would change nothing
    if (!["GET", "HEAD", undefined].includes(request.method)) {
      request.headers["X-CSRFToken"] = place.dataset.csrf;
    }
    return request;
  },
});
