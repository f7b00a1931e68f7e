# What `edgetier deploy` and the other commands take as environment.

output "environment" {
  description = "Variables by name; README.md has the line that puts them into a shell."
  sensitive   = true
  value = merge(
    {
      CLOUDFLARE_ACCOUNT_ID         = var.account_id
      EDGETIER_S3_ENDPOINT          = local.store.endpoint
      EDGETIER_S3_BUCKET            = local.store.bucket
      EDGETIER_S3_REGION            = local.store.region
      EDGETIER_S3_ACCESS_KEY_ID     = var.store.access_key
      EDGETIER_S3_SECRET_ACCESS_KEY = var.store_secret_key
    },
    var.cache == null ? {} : {
      EDGETIER_REDIS_REST_URL   = "https://${upstash_redis_database.cache[0].endpoint}"
      EDGETIER_REDIS_REST_TOKEN = upstash_redis_database.cache[0].rest_token
    },
    var.hostname == null ? {} : {
      EDGETIER_URL = "https://${var.hostname}"
    },
    var.region == null ? {} : {
      EDGETIER_REGION_URL = var.region.url
      EDGETIER_REGION_KEY = local.region_key
    },
  )
}

output "bucket" {
  description = "For [vars] of wrangler.toml: EDGETIER_S3_BUCKET."
  value       = local.store.bucket
}
