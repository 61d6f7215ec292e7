/** A row's position in the order of all rows. */
export interface RowCursor {
  readonly time: number;
  readonly id: string;
}
