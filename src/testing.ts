/// <reference types="node" preserve="true" />
/** The exports for tests of plugins: `import { … } from "model-gateway/testing"`. */

export { type DriveOptions, drive, type TestGateway } from "./testing/drive.ts";
