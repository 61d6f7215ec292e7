/** Runs while the rest of the marketplace is still being read: what every page shows is asked at once. */

import { begin } from "../common/first.js";

export const MODELS = "/pages/models.json";

begin(MODELS);
