import { defined, type ListedModel, type Listing } from "model-gateway/protocol";

/** A model in the vendor's shape; the limits are only there when they are known. */
const one = ({ id, name, description, context, output, can }: ListedModel) => ({
  name: `models/${id}`,
  version: "1",
  displayName: name,
  ...defined({ description, inputTokenLimit: context, outputTokenLimit: output }),
  supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
  ...(can.includes("reasoning") ? { thinking: true } : {}),
});

export const listing: Listing = { list: (models) => ({ models: models.map(one) }), one };
