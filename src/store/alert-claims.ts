/** Who of several gateways tells the world of something that all of them notice. */
export class AlertClaims {
  /**
   * Whether this one tells it: nobody has told this state of the subject for that long. A store for one gateway has nobody
   * else to ask.
   * @param patience milliseconds
   * @param rising whether states are ordered as text: one that is lower than the last is then never told
   */
  async claim(_subject: string, _state: string, _patience: number, _rising: boolean): Promise<boolean> {
    return true;
  }
}
