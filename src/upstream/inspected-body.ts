import { Transform, type TransformCallback } from "node:stream";

/** Inspects a body on its way; nothing passes before it has been accepted. */
export interface BodyInspection {
  onPiece(bytes: Buffer, onAccepted: () => void): void;
  onEnd(onAccepted: () => void): void;
}

/**
 * A body, each piece of which is inspected before it is passed on. It lets go of its inspection when it is over: Node keeps each
 * writable stream in memory until V8 marks the whole heap, because it stores a function in it that V8 allocates among old objects.
 */
export class InspectedBody extends Transform {
  constructor(private inspection: BodyInspection | undefined) {
    super();
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.inspection?.onPiece(bytes, () => done(null, bytes));
  }

  override _flush(done: TransformCallback): void {
    this.inspection?.onEnd(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.inspection = undefined;
    done(error);
  }
}
