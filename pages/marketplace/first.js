/** Runs while the rest of the marketplace is still loading: starts the request that every page needs. */

import { begin } from "../common/first.js";

export const MODELS = "/pages/models.json";

begin(MODELS);
