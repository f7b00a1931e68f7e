# Applies an overlay of infra/kubernetes with settings in place of those of base/region.env: KUBECONFIG, CONTEXT, OVERLAY, SETTINGS.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -R "$(dirname "$OVERLAY")/.." "$folder/kubernetes"
printf '%s\n' "$SETTINGS" > "$folder/settings.env"
cut -d= -f1 "$folder/settings.env" | sed 's/.*/^&=/' > "$folder/names"
env="$folder/kubernetes/base/region.env"
grep -v -f "$folder/names" "$env" > "$folder/rest.env"
cat "$folder/rest.env" "$folder/settings.env" > "$env"
kubectl --context "$CONTEXT" apply -k "$folder/kubernetes/overlays/$(basename "$OVERLAY")"
kubectl --context "$CONTEXT" --namespace edgetier rollout status deployment/edgetier-region --timeout=600s
