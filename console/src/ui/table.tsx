import { Button, Group } from '@mantine/core'
import type { UseInfiniteQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect } from 'react'
import { useSay } from './language.tsx'
import { Failure, Waiting } from './load-parts.tsx'

export type Column<T> = {
  head: string
  cell: (row: T) => ReactNode
  /** Not on a telephone. */
  wide?: boolean
  /** Numbers stand at the right edge. */
  end?: boolean
}

export function Table<T>({
  label,
  rows,
  columns,
  keyOf,
}: {
  label: string
  rows: readonly T[]
  columns: readonly Column<T>[]
  keyOf: (row: T) => string
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section className="rl-scroll" tabIndex={0} aria-label={label}>
      <table className="rl-table">
        <thead>
          <tr>
            {columns.map(({ head, wide, end }) => (
              <th key={head} data-wide={wide || undefined} data-end={end || undefined} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ head, cell, wide, end }) => (
                <td key={head} data-wide={wide || undefined} data-end={end || undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

const mostSought = 10

/** A list of the API: page after page, with what to say when there is nothing. */
export function List<P, T>({
  label,
  query,
  rowsOf,
  columns,
  keyOf,
  empty,
}: {
  label: string
  query: UseInfiniteQueryResult<{ pages: P[] }>
  rowsOf: (page: P) => readonly T[]
  columns: readonly Column<T>[]
  keyOf: (row: T) => string
  empty: ReactNode
}) {
  const say = useSay()
  const pages = query.data?.pages
  // A page may hold nothing while a later one does: some are read on for, then it is asked.
  const isSought =
    pages !== undefined &&
    query.hasNextPage &&
    !query.isError &&
    pages.length < mostSought &&
    pages.every((page) => rowsOf(page).length === 0)
  const { fetchNextPage, isFetching } = query
  useEffect(() => {
    if (isSought && !isFetching) void fetchNextPage()
  }, [isSought, isFetching, fetchNextPage])
  if (query.isError && !query.data) return <Failure error={query.error} retry={() => void query.refetch()} />
  if (!query.data || isSought) return <Waiting rows={8} />
  const rows = query.data.pages.flatMap(rowsOf)
  return (
    <>
      {rows.length === 0 ? empty : <Table label={label} rows={rows} columns={columns} keyOf={keyOf} />}
      {query.hasNextPage && (
        <Group justify="center" p="sm">
          <Button
            size="xs"
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {say('more')}
          </Button>
        </Group>
      )}
    </>
  )
}
