import type { Http } from '../platform/http/http.ts'

/**
 * Has a simulator follow the mode of the key that opens it: whoever brings a live one reads everywhere that the money is
 * real. None is moved; only so can live mode be tried.
 */
export function followModeOfKey(
  http: Http,
  isLive: (authorization: string | undefined) => boolean,
  inLiveMode: (answer: string) => string,
): void {
  http.addHook('onSend', async (request, _reply, answer) =>
    typeof answer === 'string' && isLive(request.headers.authorization) ? inLiveMode(answer) : answer,
  )
}
