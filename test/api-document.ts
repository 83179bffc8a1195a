/** As much of the API document as tests look at, with every `$ref` replaced by what it names. */
export type ApiDocument = {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>
}

type Media = {
  readonly schema: Record<string, unknown>
  readonly example?: unknown
  readonly examples?: Record<string, { value: unknown }>
}
type Content = Readonly<Record<string, Media>>

export type ApiOperation = {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly security?: readonly unknown[]
  readonly parameters?: readonly { readonly name: string; readonly in: string }[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}

export function resolved(document: object): ApiDocument {
  const follow = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(follow)
    if (typeof value !== 'object' || value === null) return value
    if ('$ref' in value) return follow(at(document, String(value.$ref)))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, follow(inner)]))
  }
  return follow(document) as ApiDocument
}

function at(document: object, reference: string): unknown {
  let found: unknown = document
  for (const step of reference.split('/').slice(1)) found = (found as Record<string, unknown>)[step]
  if (found === undefined) throw new Error(`${reference} names nothing.`)
  return found
}

/** What a body or an answer is shown with. */
export function exampleOf({ example, examples }: Media): unknown {
  return example ?? Object.values(examples ?? {})[0]?.value
}

/** Whether a token is asked for, which is so unless an operation says otherwise. */
export function isSecured({ security }: Pick<ApiOperation, 'security'>): boolean {
  return security === undefined || security.length > 0
}

/** What HTTP itself says of a request that no route was asked to answer; the document tells it of all routes at once. */
export const saidBeforeRoutes: ReadonlySet<string> = new Set([
  'invalid_http',
  'route_not_found',
  'method_not_allowed',
  'request_timeout',
  'expectation_failed',
  'headers_too_large',
])

/** The codes that an operation lists for a status: under the status itself, else under its class. */
export function codesListed(operation: ApiOperation, status: number): readonly string[] {
  const response = operation.responses[status] ?? operation.responses[`${Math.floor(status / 100)}XX`]
  const schema = response?.content?.['application/json']?.schema as
    | {
        allOf?: { properties?: { error?: { properties?: { code?: { enum?: string[]; const?: string } } } } }[]
      }
    | undefined
  const codes = schema?.allOf?.flatMap((part) => part.properties?.error?.properties?.code ?? []) ?? []
  return codes.flatMap(({ enum: several, const: one }) => several ?? (one === undefined ? [] : [one]))
}

/** Says in words when an error is answered that its operation does not list; every world asks it of every answer. */
export function openCodeCheck(readDocument: () => object) {
  let known: { method: string; pattern: RegExp; operation: ApiOperation }[] | undefined
  const operations = () => {
    known ??= Object.entries(resolved(readDocument()).paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
        operation,
      })),
    )
    return known
  }
  return (asked: { method: string; path: string }, status: number, code: string): string | undefined => {
    if (saidBeforeRoutes.has(code)) return undefined
    const [path] = asked.path.split('?')
    const found = operations().filter(({ method, pattern }) => method === asked.method && pattern.test(path!))
    if (found.length === 0 || found.some(({ operation }) => codesListed(operation, status).includes(code)))
      return undefined
    return `${asked.method} ${path} answered ${status} ${code}, which the API document does not list there.`
  }
}
