// End-to-end suites that share one running system of the fixture models.

import "./suites/shared-system.ts";
import "./suites/client.ts";
import "./suites/images.ts";
import "./suites/openai-client.ts";
import "./suites/staged-model.ts";
import "./suites/triton-client.ts";
