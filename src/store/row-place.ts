/** A row's place in the order of all. */
export interface RowPlace {
  readonly time: number;
  readonly id: string;
}
