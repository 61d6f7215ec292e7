/** Follows the text of a JSON object, which arrives in pieces, and finds its end. */
export class ObjectText {
  /** Whether the object has ended. */
  complete = false;
  private depth = 0;
  private inString = false;
  private escaped = false;

  add(text: string): void {
    for (const character of text)
      if (this.escaped) this.escaped = false;
      else if (this.inString) {
        this.escaped = character === "\\";
        this.inString = character !== '"';
      } else this.addOutside(character);
  }

  private addOutside(character: string): void {
    this.inString = character === '"';
    if (character === "{" || character === "[") this.depth++;
    else if (character === "}" || character === "]") this.complete = --this.depth === 0;
  }
}
