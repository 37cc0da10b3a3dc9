export function TranscriptView({ id }: { id: string }) {
  return <p>{id}</p>;
}
