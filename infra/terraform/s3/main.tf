# A model store in Amazon S3, and a user who may read and write it, for `store` of the folder above.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

provider "aws" {
  region = var.region
}

variable "bucket" {
  description = "Its name, which nobody else may have."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "Small letters, digits and '-', 3 to 63 of them; dots would break TLS."
  }
}

variable "region" {
  description = "AWS region, such as eu-central-1."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "As in eu-central-1."
  }
}

resource "aws_s3_bucket" "models" {
  bucket = var.bucket

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_s3_bucket_public_access_block" "models" {
  bucket                  = aws_s3_bucket.models.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_iam_user" "edgetier" {
  name = "${var.bucket}-edgetier"
}

resource "aws_iam_user_policy" "edgetier" {
  name = "model-store"
  user = aws_iam_user.edgetier.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["s3:ListBucket"], Resource = aws_s3_bucket.models.arn },
      { Effect = "Allow", Action = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], Resource = "${aws_s3_bucket.models.arn}/*" },
    ]
  })
}

resource "aws_iam_access_key" "edgetier" {
  user = aws_iam_user.edgetier.name
}

output "store" {
  description = "Of the folder above."
  value = {
    kind       = "s3"
    bucket     = aws_s3_bucket.models.id
    endpoint   = "https://s3.${var.region}.amazonaws.com"
    region     = var.region
    access_key = aws_iam_access_key.edgetier.id
  }
}

output "store_secret_key" {
  sensitive = true
  value     = aws_iam_access_key.edgetier.secret
}
