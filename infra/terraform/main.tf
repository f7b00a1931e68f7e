# Model store, L2 cache, the Worker's address. The Worker itself is wrangler's: `edgetier deploy`.

locals {
  is_r2 = var.store.kind == "r2"

  store = {
    bucket   = local.is_r2 ? cloudflare_r2_bucket.models[0].name : var.store.bucket
    endpoint = local.is_r2 ? "https://${var.account_id}.r2.cloudflarestorage.com" : var.store.endpoint
    region   = var.store.region
  }
}

resource "cloudflare_r2_bucket" "models" {
  count = local.is_r2 ? 1 : 0

  account_id = var.account_id
  name       = coalesce(var.store.bucket, "${var.name}-models")
  location   = var.store.location

  lifecycle {
    prevent_destroy = true
  }
}

# Answers may always be computed again: what is used least goes when there is no room.
resource "upstash_redis_database" "cache" {
  count = var.cache == null ? 0 : 1

  database_name  = "${var.name}-cache"
  region         = "global"
  primary_region = var.cache.primary_region
  read_regions   = var.cache.read_regions
  tls            = true
  eviction       = true
}

resource "cloudflare_workers_custom_domain" "edge" {
  count = var.hostname == null ? 0 : 1

  account_id = var.account_id
  zone_id    = var.zone_id
  hostname   = var.hostname
  service    = var.name
}
