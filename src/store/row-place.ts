/** A row's position in the order of all rows. */
export interface RowPlace {
  readonly time: number;
  readonly id: string;
}
