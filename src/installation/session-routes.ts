import Type from 'typebox'
import type { App } from '../app.ts'
import { cookieLine, isCrossSite, isSession, newSession, sessionOf } from '../platform/access/session.ts'
import {
  deleteSession,
  findSessionEnd,
  insertSession,
  takeSignInCode,
} from '../platform/access/session-rows.ts'
import { tokenStatus } from '../platform/access/token-rights.ts'
import { findToken } from '../platform/access/token-rows.ts'
import { envelope, nullable, success } from '../platform/http/answers.ts'
import type { Http } from '../platform/http/http.ts'
import { isLoopback, isUrlOfLoopback } from '../platform/loopback.ts'
import { Refusal, refuseRequest } from '../platform/refusal.ts'
import { release } from '../platform/release.ts'
import { renderInstant } from '../platform/time.ts'

const Session = Type.Object(
  {
    token_id: Type.String(),
    name: Type.String(),
    scopes: Type.Array(Type.String()),
    workspace: nullable(Type.String({ description: '`*` is all' })),
    account: nullable(Type.String({ description: '`*` is all' })),
    expires_at: nullable(
      Type.String({ description: 'When the session ends, by real time; null for a Bearer token' }),
    ),
    mode: Type.Enum(['sandbox', 'live']),
    time_zone: Type.String(),
    release: Type.String(),
  },
  { title: 'Session' },
)

const asBearer = { headers: { 'www-authenticate': 'Bearer' } }

/** Signing a browser in and out. With the cookie every route answers as with the token that signed in. */
export function sessionRoutes(http: Http, app: App): void {
  const { pool, config } = app
  // A proxy on this machine speaks for browsers that are elsewhere.
  const isFar = ({ host }: { host?: string | undefined }) =>
    !isLoopback(config.host) || !URL.canParse(`http://${host}`) || !isUrlOfLoopback(`http://${host}`)
  const tags = ['operations']
  const response = success(Session)

  const view = async (tokenId: string, endsAt: Date | undefined) => {
    const token = await findToken(pool, tokenId)
    if (!token) throw refuseRequest('unauthorized')
    return envelope({
      token_id: token.id,
      name: token.name,
      scopes: [...token.scopes],
      workspace: token.workspace,
      account: token.account,
      expires_at: endsAt ? renderInstant(endsAt, config.timeZone) : null,
      mode: config.mode,
      time_zone: config.timeZone,
      release,
    })
  }

  /** Whose token the caller brings, or whose sign-in link. Anything wrong with either is the same "no". */
  const signedInBy = async ({ token, code }: { token?: string; code?: string }): Promise<string> => {
    if (token !== undefined) {
      const identified = await app.access.identify(`Bearer ${token}`).catch((error: unknown) => {
        throw error instanceof Refusal && error.code === 'unauthorized'
          ? refuseRequest('unauthorized', asBearer)
          : error
      })
      return identified.tokenId
    }
    const found = code !== undefined && isSession(code) ? await takeSignInCode(pool, code) : undefined
    const linked = found === undefined ? undefined : await findToken(pool, found)
    // It may have ended since its link was made.
    const status = linked && tokenStatus(linked, app.clock())
    if (!linked || status === 'revoked' || status === 'expired') throw refuseRequest('unauthorized', asBearer)
    return linked.id
  }

  http.post(
    '/api/session',
    {
      config: { access: 'open' },
      schema: {
        operationId: 'signIn',
        errors: refuseRequest.may('unauthorized', 'cross_site', 'invalid_json', 'body_too_large'),
        summary: 'Sign a browser in with a token, or with the code of a sign-in link',
        description:
          'Sets a cookie for 12 hours. With it, anything but GET needs `X-Console: 1` from the same origin.',
        tags,
        body: Type.Object(
          {
            token: Type.Optional(Type.String({ maxLength: 256 })),
            code: Type.Optional(Type.String({ maxLength: 256 })),
          },
          { additionalProperties: false },
        ),
        response: { 201: response },
      },
    },
    async (request, reply) => {
      // Signing somebody in to another one's account is a trick of other sites, too.
      if (isCrossSite({ method: 'GET', headers: request.headers })) throw refuseRequest('cross_site')
      const { token, code } = request.body
      if ((token === undefined) === (code === undefined))
        throw refuseRequest('validation_failed', {
          details: [
            { path: 'token', code: 'invalid', message: 'Give either a token or the code of a sign-in link.' },
          ],
        })
      const tokenId = await signedInBy(request.body)
      const session = newSession()
      app.secrets.addPassing(session)
      await insertSession(pool, session, tokenId)
      const body = await view(tokenId, await findSessionEnd(pool, session))
      return reply
        .code(201)
        .header('set-cookie', cookieLine(session, { secure: isFar(request.headers) }))
        .send(body)
    },
  )

  http.get(
    '/api/session',
    {
      config: { access: 'any' },
      schema: {
        operationId: 'getSession',
        summary: 'Who is signed in, and what that token may do',
        tags,
        response: { 200: response },
      },
    },
    async ({ principal, headers }) => {
      const session = headers.authorization === undefined ? sessionOf(headers.cookie) : undefined
      return view(principal.tokenId, session === undefined ? undefined : await findSessionEnd(pool, session))
    },
  )

  http.delete(
    '/api/session',
    {
      config: { access: 'any' },
      schema: {
        operationId: 'signOut',
        summary: 'Sign out',
        tags,
        response: { 200: success(Type.Object({ signed_out: Type.Boolean() })) },
      },
    },
    async ({ headers }, reply) => {
      const session = sessionOf(headers.cookie)
      if (session !== undefined) await deleteSession(pool, session)
      app.access.forget(session)
      return reply
        .header('set-cookie', cookieLine('', { secure: isFar(headers) }))
        .send(envelope({ signed_out: session !== undefined }))
    },
  )
}
