/// <reference types="node" preserve="true" />
/** The exports for tests of plugins: `import { … } from "model-gateway/testing"`. */

export type { ClientResponse, ResponseContent, TestRequest } from "./testing/client.ts";
export { type DriveOptions, drive, type ProviderScript, type TestGateway, type TestResult } from "./testing/drive.ts";
export type { LogLine } from "./testing/memory-log.ts";
export type { ProviderAnswer } from "./testing/provider-answer.ts";
export type { SentRequest } from "./testing/scripted-provider.ts";
