import { useQuery } from '@tanstack/react-query'
import { Navigate, useParams } from '@tanstack/react-router'
import { client, dataOf } from '../api/client.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { PageHead } from '../ui/page-parts.tsx'

/** A refund or payment has no page of its own: it stands on its invoice. */
export function Find() {
  const say = useSay()
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: ['find', id],
    retry: false,
    queryFn: async (): Promise<string | null> => {
      if (id.startsWith('ref_'))
        return (
          await dataOf(
            client.GET('/api/billing/refunds/{refund_id}', { params: { path: { refund_id: id } } }),
          )
        ).invoice_id
      let cursor: string | undefined
      for (let page = 0; page < 10; page++) {
        const found = await dataOf(
          client.GET('/api/billing/invoices', {
            params: { query: { limit: 100, ...(cursor && { cursor }) } },
          }),
        )
        const one = found.invoices.find(({ payments }) =>
          payments.some(({ payment_id }) => payment_id === id),
        )
        if (one) return one.invoice_id
        if (!found.next_cursor) return null
        cursor = found.next_cursor
      }
      return null
    },
  })
  return (
    <>
      <PageHead title={id} />
      <Loaded query={query}>
        {(invoice) =>
          invoice ? (
            <Navigate to="/invoices/$id" params={{ id: invoice } as never} replace />
          ) : (
            <Empty title={say('nothingFound')} />
          )
        }
      </Loaded>
    </>
  )
}
