/** Whether requests shall come, and what each part says of itself: `ok`, or what is the matter. */
export interface Readiness {
  readonly ready: boolean;
  readonly parts: Readonly<Record<string, string>>;
}
