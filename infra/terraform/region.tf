# The region server on Kubernetes: the manifests of infra/kubernetes, with this deployment's store, secrets and key.

locals {
  manifests  = "${path.module}/../kubernetes"
  namespace  = "edgetier"
  region_key = var.region == null ? null : "${var.name}:${random_bytes.region_key[0].base64}"

  region_settings = var.region == null ? {} : {
    EDGETIER_S3_ENDPOINT    = local.store.endpoint
    EDGETIER_S3_BUCKET      = local.store.bucket
    EDGETIER_S3_REGION      = local.store.region
    EDGETIER_REGION_PRELOAD = join(",", var.region.preload)
  }
}

# What edges sign their requests with, as of `edgetier region key`.
resource "random_bytes" "region_key" {
  count = var.region == null ? 0 : 1

  length = 32
}

resource "kubernetes_namespace_v1" "region" {
  count = var.region == null ? 0 : 1

  metadata {
    name = local.namespace
  }
}

resource "kubernetes_secret_v1" "model_store" {
  count = var.region == null ? 0 : 1

  metadata {
    name      = "edgetier-model-store"
    namespace = kubernetes_namespace_v1.region[0].metadata[0].name
  }
  data = {
    AWS_ACCESS_KEY_ID     = var.store.access_key
    AWS_SECRET_ACCESS_KEY = var.store_secret_key
  }
}

resource "kubernetes_secret_v1" "region_keys" {
  count = var.region == null ? 0 : 1

  metadata {
    name      = "edgetier-region-keys"
    namespace = kubernetes_namespace_v1.region[0].metadata[0].name
  }
  data = {
    keys = local.region_key
  }
}

# kubectl applies the overlay: what Kustomize makes of it is tested as it stands (test/infra). The settings are this
# deployment's, in an overlay of its own.
resource "terraform_data" "region" {
  count = var.region == null ? 0 : 1

  triggers_replace = {
    manifests = sha256(join("", [for file in sort(fileset(local.manifests, "{base,components,overlays}/**")) : filesha256("${local.manifests}/${file}")]))
    overlay   = var.region.overlay
    settings  = local.region_settings
    secrets   = [kubernetes_secret_v1.model_store[0].id, kubernetes_secret_v1.region_keys[0].id]
  }

  provisioner "local-exec" {
    command = "sh ${path.module}/apply-region.sh"
    environment = {
      KUBECONFIG = pathexpand(var.region.kubeconfig)
      CONTEXT    = var.region.context
      OVERLAY    = abspath("${local.manifests}/overlays/${var.region.overlay}")
      SETTINGS   = join("\n", [for name, value in local.region_settings : "${name}=${value}"])
    }
  }
}
