/** A request's fields: texts, lists of texts and nested fields. */
export type Form = { readonly [name: string]: string | Form | readonly string[] }

/** Reads `a=1&b[c]=2&d[]=3&d[0]=3` as Stripe does. */
export function parseForm(text: string): Form {
  const form: Record<string, unknown> = Object.create(null)
  for (const [path, value] of new URLSearchParams(text)) {
    const names = path.split(/\[|\]\[|\]/).filter((name, at, all) => name !== '' || at < all.length - 1)
    put(form, names, value)
  }
  return form as Form
}

function put(into: Record<string, unknown>, [name = '', ...rest]: string[], value: string): void {
  if (rest.length === 0) {
    into[name] = value
    return
  }
  if (rest.length === 1 && /^\d*$/.test(rest[0]!)) {
    const list = Array.isArray(into[name]) ? into[name] : []
    into[name] = [...list, value]
    return
  }
  const inner = into[name]
  const fields = typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? inner : {}
  into[name] = fields
  put(fields as Record<string, unknown>, rest, value)
}

export function textOf(form: Form, name: string): string | undefined {
  const value = form[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function fieldsOf(form: Form, name: string): Form {
  const value = form[name]
  return typeof value === 'object' && !Array.isArray(value) ? (value as Form) : {}
}

export function listOf(form: Form, name: string): readonly string[] {
  const value = form[name]
  return Array.isArray(value) ? value : []
}
