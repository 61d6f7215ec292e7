/** Decides which of several gateways sends an alert that all of them have noticed. */
export class AlertClaims {
  /**
   * Reports whether this gateway sends the alert: no gateway has sent this state of the subject within `_timeout`. With a store
   * for one gateway it always does.
   * @param _timeout milliseconds
   * @param _ordered whether states are ordered as text: one that is lower than the last is then never sent
   */
  async claim(_subject: string, _state: string, _timeout: number, _ordered: boolean): Promise<boolean> {
    return true;
  }
}
