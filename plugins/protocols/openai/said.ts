import type { Conversation, Feature } from "model-gateway/protocol";

/** Where the client said a feature first, for messages about it; the feature's own name where it is only implied. */
export const saidAt = ({ uses }: Conversation, feature: Feature): string =>
  uses.find((each) => each.feature === feature)?.path ?? feature;
