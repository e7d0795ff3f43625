/**
 * The OpenAPI page, which has the session of the console.
 * @param place fragment of its address, e.g. `#/select/get_late_orders`; empty for the whole page
 */
export function OpenApi({ place }: { readonly place: string }) {
  return <iframe class="framed" title="OpenAPI page" src={`/v1/openapi${place}`} />
}
