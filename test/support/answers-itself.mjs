/** Answers every request itself, once it is routed. */
export default class AnswersItself {
  route(exchange) {
    exchange.answer = { body: "{}" };
  }
}
